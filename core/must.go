package core

// Must returns v, or panics with err if err is not nil. It is for limits whose options are
// constants, which cannot be wrong at one start and right at the next:
//
//	var mail = core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1000, Window: 24 * time.Hour}))
//
// It wraps any constructor of this module, those of channels, pools and pipes too. Handle the error
// of options that come from a flag, a file or a user.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
