package grpclimit

import (
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/internal/policy"
)

// Limits put a server's calls under policies. Use [New] to create one; its methods are safe for
// concurrent use.
//
// Most servers give [Limits.ServerOptions] to grpc.NewServer.
type Limits struct {
	terms atomic.Pointer[terms] // the options in force
	log   policy.Log
}

// terms are options in use. A call has one snapshot of them from its beginning to its end.
type terms struct {
	Options

	asker     policy.Asker[*Call, error]
	limits    []*limit
	throttles bool // a policy limits messages
	looks     bool // a function of the user's sees calls: only then their metadata is copied
}

// New returns Limits with these options, or an error that reports all invalid options.
func New(o Options) (*Limits, error) {
	l := new(Limits)
	if err := l.Update(o); err != nil {
		return nil, err
	}
	return l, nil
}

// Update replaces all options at once. Calls that are under way keep what they have. If Update
// returns an error, nothing has changed.
func (l *Limits) Update(o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	t := &terms{Options: o, asker: policy.Asker[*Call, error]{
		Observer: o.Observer, DeadlineCancels: true, Logger: o.Logger, Log: &l.log, Package: "grpclimit",
	}}
	t.looks = o.Skip != nil || o.OnRejected != nil
	for _, p := range o.Policies {
		l := newLimit(p)
		t.limits = append(t.limits, l)
		t.throttles = t.throttles || l.throttles()
		t.looks = t.looks || l.looks()
	}
	l.terms.Store(t)
	return nil
}

// ServerOptions returns the options of grpc.NewServer that put all its calls under the policies:
// [Limits.Unary] and [Limits.Stream], chained behind the interceptors of the options before them.
func (l *Limits) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream())}
}
