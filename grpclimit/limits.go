package grpclimit

import (
	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/internal/policy"
)

// Limits put a server's calls under policies. Use [New] to create one; its methods are safe for
// concurrent use.
//
// Most servers give [Limits.ServerOptions] to grpc.NewServer.
type Limits struct {
	set policy.Set[*Call]
}

// New returns Limits with these options, or an error that reports all invalid options.
func New(o Options) (*Limits, error) {
	l := new(Limits)
	l.set.Package, l.set.DeadlineCancels = "grpclimit", true
	if err := l.Update(o); err != nil {
		return nil, err
	}
	return l, nil
}

// Update replaces all options at once. Calls that are under way keep what they have. If Update
// returns an error, nothing has changed.
func (l *Limits) Update(o Options) error {
	next, err := o.checked()
	return l.set.Update(next, err)
}

// ServerOptions returns the options of grpc.NewServer that put all its calls under the policies:
// [Limits.Unary] and [Limits.Stream], chained behind the interceptors of the options before them.
func (l *Limits) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream())}
}
