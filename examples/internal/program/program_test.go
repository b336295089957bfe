package program_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/examples/internal/program"
)

// ran is what a run printed, and its status.
type ran struct {
	status    int
	out, errs string
}

func run(t *testing.T, ctx context.Context, body program.Body, args ...string) ran {
	t.Helper()
	var out, errs strings.Builder
	status := program.Run(ctx, args, program.Streams{Out: &out, Err: &errs}, "Copy copies.\n\n    copy [-n N]\n",
		func(flags *flag.FlagSet, _ program.Streams) program.Body {
			flags.Int("n", 1, "how `many`")
			return body
		})
	return ran{status, out.String(), errs.String()}
}

func returns(err error) program.Body {
	return func(context.Context, []string) error { return err }
}

func TestRun(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	arguments := func(_ context.Context, args []string) error { return program.Arguments(args) }
	noArguments := func(_ context.Context, args []string) error { return program.NoArguments(args) }
	for _, test := range []struct {
		name string
		ctx  context.Context
		body program.Body
		args []string
		want ran
	}{
		{"done", t.Context(), returns(nil), nil, ran{}},
		{"help", t.Context(), returns(errors.New("not run")), []string{"-h"}, ran{out: "Copy copies.\n\n    copy [-n N]\n\n  -n many\n    \thow many (default 1)\n"}},
		{"unknown flag", t.Context(), returns(nil), []string{"-x"}, ran{2, "", "copy: flag provided but not defined: -x; see copy -h\n"}},
		{"user's mistake", t.Context(), returns(program.Usage("-n is %d, want at least 1", 0)), nil, ran{2, "", "copy: -n is 0, want at least 1; see copy -h\n"}},
		{"failure", t.Context(), returns(errors.New("no space")), nil, ran{1, "", "copy: no space\n"}},
		{"ctrl-C", interrupted, returns(context.Canceled), nil, ran{status: 130}},
		{"canceled by itself", t.Context(), returns(context.Canceled), nil, ran{1, "", "copy: context canceled\n"}},
		{"argument", t.Context(), noArguments, []string{"a"}, ran{2, "", "copy: unexpected argument \"a\"; see copy -h\n"}},
		{"flag behind one", t.Context(), noArguments, []string{"a", "-n", "2"}, ran{2, "", "copy: flags come before \"a\"; see copy -h\n"}},
		{"flag behind arguments", t.Context(), arguments, []string{"a", "-n", "2"}, ran{2, "", "copy: flags come before \"a\": write -n first; see copy -h\n"}},
		{"stdin", t.Context(), arguments, []string{"-"}, ran{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, run(t, test.ctx, test.body, test.args...))
		})
	}
}
