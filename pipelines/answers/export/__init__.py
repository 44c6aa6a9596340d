"""What captures show in the formats of other viewers: Perfetto's traces, OTLP's spans, Prometheus' samples."""
