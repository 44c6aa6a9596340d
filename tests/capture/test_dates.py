"""A capture point is a place: what of a path says when captures were made is no part of its name."""

import pytest

from dissectors.capture.dates import undated
from dissectors.capture.files import site_of

DATES = [
    "dt=2026-11-26", "date=20261126/hour=07", "2026/11/26", "2026/11/26/07", "2026/Nov/26", "20261126", "2026-11-26/07",
    "hour=07", "h=07", "y=2026/m=11/d=26", "2026-11-26T07", "2026-11-26T07:00:00Z", "20261126T0700", "20261126-070000",
    "2026112607", "2026-11", "2026-11/26", "26.11.2026", "11-26-2026", "20261126-20261127", "2026-11-26_07-08",
    "2026-W48", "event_date=2026-11-26", "part=20261126", "dt=2026-11-26%2007%3A00", "ts=1764115200", "day-26",
]  # fmt: skip
NAMES = ["client-side", "9092", "07", "2001", "h1/d2", "10.20.30.40", "broker-2026", "time", "datenode1", "1764115200"]


@pytest.mark.parametrize("date", DATES)
@pytest.mark.parametrize("path", ["store/{}/a.pcap", "store/{}/a-{}.pcap", "{}/store/a.pcap"])
def test_a_date_or_an_hour_is_no_part_of_a_site_wherever_it_stands(path: str, date: str) -> None:
    assert site_of(path.replace("{}", date, 1).replace("{}", "1"), "place") == "store"


@pytest.mark.parametrize("name", NAMES)
def test_other_numbers_and_names_are(name: str) -> None:
    assert undated(name.split("/")) == name.split("/")


def test_the_day_in_a_name_is_no_part_of_it() -> None:
    assert undated(["node7-2026-11-26", "20261126T07_node7"]) == ["node7", "node7"]


@pytest.mark.parametrize(
    ("path", "site"),
    [
        ("2026/11/26/a.pcap", "."),
        ("/2026/11/26/a.pcap", "/"),
        ("s3://bucket/dt=2026-11-26/node7/a.pcap", "s3://bucket/node7"),
        ("s3://2026-11-26/2026-11-26/a.pcap", "s3://2026-11-26"),
    ],
)
def test_a_root_or_a_host_is_always_part_of_it(path: str, site: str) -> None:
    assert site_of(path, "place") == site


def test_who_asks_for_folders_gets_folders() -> None:
    assert site_of("store/dt=2026-11-26/a.pcap", "folder") == "store/dt=2026-11-26"
