// Package engine plays requests through limits in virtual time. It drives the state machine of the library's own limiters,
// so it decides as they do.
//
//	plan, err := engine.Of(limits, "ip") // which limits a request has to pass
//	...
//	player := engine.NewPlayer(&stats, engine.Scaled(1))
//	for q := range engine.FromFirst(plan.Read(log, file, &times), &base) {
//		player.Play(&q)
//	}
//	player.Finish()
//
// The commands simulate and playground use it.
package engine
