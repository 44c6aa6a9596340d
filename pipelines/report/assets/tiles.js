// The numbers of the selection; below each that of the whole capture.
const MEDIAN_NEEDS = data.enough.p50, P99_NEEDS = data.enough.p99;
const drawTiles = (sum, all) => {
  const [from, to] = windowOf(), long = Math.max(1, to - from) / 1e6, part = isPart();
  const below = (ofAll, otherwise) => part ? `of all: ${ofAll}` : otherwise;
  const duration = (ns) => { const [number, ...unit] = units.duration(ns).split(" "); return [number, el("small", null, unit.join(" "))]; };
  const tile = (name, value, note, act, bad) => el(act ? "button" : "div", { class: `tile${bad ? " bad" : ""}`, "data-figure": name, type: act ? "button" : null, onclick: act }, el("span", null, name), el("b", null, value), el("em", null, note));
  const sorted = (name) => () => { state.sort = name; changed(true); $("slow").scrollIntoView(); };
  const known = (ns) => ns === null ? "–" : units.duration(ns);
  const failed = () => {
    for (const place of [1, 2]) if (chipAt("outcome", place) < 0) state.chips.push({ dimension: "outcome", place, not: false });
    changed(true);
    $("slow").scrollIntoView();
  };
  const causes = [sum.errors ? counted(sum.errors, "error") : "", sum.unanswered ? `${whole(sum.unanswered)} unanswered` : ""].filter(Boolean).join(", ");
  const perSecond = (count) => `${units.shortCount(Number((count / long).toPrecision(3)))}/s`;
  const besides = [sum.silent ? `${whole(sum.silent)} expect no answer` : "", sum.pushed ? `${whole(sum.pushed)} pushes besides` : ""].filter(Boolean);
  $("tiles").replaceChildren(
    tile("Requests", whole(sum.requests), below(whole(all.requests), [perSecond(sum.requests), ...besides].join(", ")), sorted("time")),
    tile("Median", sum.timed >= MEDIAN_NEEDS ? duration(sum.p50) : "–", sum.timed >= MEDIAN_NEEDS ? below(known(all.p50), "without long polls") : `needs ${MEDIAN_NEEDS}, has ${whole(sum.timed)}`, sorted("-total")),
    tile("p99", sum.timed >= P99_NEEDS ? duration(sum.p99) : "–", sum.timed >= P99_NEEDS ? below(all.timed >= P99_NEEDS ? known(all.p99) : "–", "without long polls") : `needs ${P99_NEEDS}, has ${whole(sum.timed)}`, sorted("-total")),
    tile("Slowest", sum.longest === null ? "–" : duration(sum.longest), below(known(all.longest), "without long polls"), sorted("-total")),
    tile("Failed", whole(sum.failed), below(whole(all.failed), causes || "every request was answered"), sum.failed ? failed : null, sum.failed > 0),
    tile("Produced", whole(sum.produced), below(whole(all.produced), sum.produced ? `messages, ${perSecond(sum.produced)}` : "messages")),
    tile("Consumed", whole(sum.consumed), below(whole(all.consumed), sum.consumed ? `messages, ${perSecond(sum.consumed)}` : "messages")));
};
