// Package engine plays requests through limits in virtual time. It drives the state machine of the library's own limiters,
// so it decides as they do.
//
//	plan, err := engine.Single(limit, "ip") // which limits a request has to pass
//	...
//	var counts engine.Stats
//	player := engine.NewPlayer(&counts, 1)
//	for r := range records {
//		q := plan.Request(r)
//		player.Play(&q)
//	}
//	player.Finish()
//
// The commands simulate and playground use it.
package engine
