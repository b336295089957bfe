package cli

import (
	"context"
	"fmt"
	"time"
)

// ParseDuration reads a time that is not negative: 250ms, 1h30m, or a plain number of seconds.
func ParseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	if err != nil {
		if v, err = time.ParseDuration(text + "s"); err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 250ms, 1h30m, or a number of seconds", text)
		}
	}
	if v < 0 {
		return 0, fmt.Errorf("%q is negative", text)
	}
	return v, nil
}

// Duration is a flag: as [time.ParseDuration] has it, or a plain number of seconds.
type Duration time.Duration

func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type returns what the help shows in place of a value.
func (*Duration) Type() string { return "TIME" }

// Set reads a value of the flag.
func (d *Duration) Set(text string) error {
	v, err := ParseDuration(text)
	*d = Duration(v)
	return err
}

// Sleep waits for d, and reports false if ctx is done before, or by then.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
