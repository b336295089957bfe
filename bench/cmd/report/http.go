package main

// The measurements of httplimit, and their lines of the table.

func httpMeasurements() []measurement {
	const folder = "http"
	return []measurement{
		{name: "http-1", folder: folder, bench: "Middleware", at: "keys=1"},
		{name: "http-100000", folder: folder, bench: "Middleware", at: "keys=100000"},
		{name: "http-download", folder: folder, bench: "Download"},
	}
}

func httpGoals() []line {
	var ls []line
	for _, m := range []struct{ name, work string }{
		{"http-1", "a request under its client's limit, one client"},
		{"http-100000", "a request under its client's limit, of 100,000"},
	} {
		for _, r := range []struct {
			rival string
			goal  float64
		}{{timeRate, 0.60}, {"httprate", 0.80}, {"tollbooth", 0.60}, {"ulule", 0.60}} {
			ls = append(ls, line{work: m.work, measurement: m.name, ours: ours, rival: r.rival, goal: both(r.goal), allocs: 1})
		}
	}
	return append(ls, line{work: "16 MiB of a file to a client, under a limit far above", measurement: "http-download", ours: ours, rival: "none", goal: both(1.05), allocs: anyAllocs})
}
