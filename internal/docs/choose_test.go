package docs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pageFile = "docs/choose.md"

// Each limiter of the page is the same limit, made from its text and by its constructor.
func TestChoose(t *testing.T) {
	page := read(t, pageFile)
	for _, l := range leaves {
		t.Run(l.name, func(t *testing.T) {
			require.Contains(t, page, "```spec\n"+l.spec+"\n```\n")
			limit, err := spec.Parse(l.spec)
			require.NoError(t, err)
			text, err := limit.New("")
			require.NoError(t, err)
			built, err := l.build()
			require.NoError(t, err)
			require.Equal(t, options(built, l.waits), options(text, l.waits))
		})
	}
}

// options returns the options of a limiter, without the length of its queue unless calls wait.
func options(l core.Limiter, waits bool) any {
	switch l := l.(type) {
	case *core.TokenBucket:
		o := l.Options()
		if !waits {
			o.QueueLimit = 0
		}
		return o
	case *core.FixedWindow:
		return l.Options()
	case *core.SlidingWindow:
		return l.Options()
	case *core.ConcurrencyLimiter:
		return l.Options()
	}
	return nil
}
