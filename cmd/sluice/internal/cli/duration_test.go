package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

func TestParseDuration(t *testing.T) {
	for _, test := range []struct {
		text  string
		want  time.Duration
		wrong string
	}{
		{"1h30m", 90 * time.Minute, ""},
		{"1.5", 1500 * time.Millisecond, ""},
		{"0", 0, ""},
		{"-1ns", 0, `"-1ns" is negative`},
		{"-2", 0, `"-2" is negative`},
		{"soon", 0, `"soon" is not a duration such as 250ms, 1h30m, or a number of seconds`},
	} {
		d, err := cli.ParseDuration(test.text)
		assert.Equal(t, test.want, d, test.text)
		if test.wrong == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, test.wrong)
		}
	}
}
