// Package duration reads a time as the command's flags and files have it.
package duration

import (
	"fmt"
	"time"
)

// Parse reads a time that is not negative: 250ms, 1h30m, or a plain number of seconds.
func Parse(text string) (time.Duration, error) {
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
