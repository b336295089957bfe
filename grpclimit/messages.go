package grpclimit

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/meter"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/wait"
	"github.com/sluice-go/sluice/partition"
)

// messages pays for the messages of a call. Each direction is for one goroutine at a time, as a
// stream's RecvMsg and SendMsg are; end may be called meanwhile, as a handler may return while
// another goroutine still receives.
type messages struct {
	admission *admission
	ctx       context.Context // the call's
	source    wait.Source     // ends the waits when the handler has returned
	payments  [2][]payment    // in and out

	mu    sync.Mutex // guards what follows, and the leases of the payments; a leaf
	ended bool       // the handler has returned: no lease is kept
}

// direction is that of a message.
type direction int

const (
	in direction = iota
	out
)

// payment is what one policy takes for the messages of one direction.
type payment struct {
	policy *policy.Policy[*Call, *ownPolicy]
	each   core.Limiter // one permit a message; nil: unlimited
	lease  core.Lease   // for the latest message
	bytes  meter.Meter
}

// messages returns what pays for the messages of the call; nil if nobody limits them.
func (adm *admission) messages(ctx context.Context) *messages {
	var payments [2][]payment
	for i := range adm.policies.Decisions {
		d := &adm.policies.Decisions[i]
		if p := d.Policy.Own; !p.Shadow {
			payments[in] = append(payments[in], adm.call.payments(d.Policy, p.Receive, p.ReceiveBytes)...)
			payments[out] = append(payments[out], adm.call.payments(d.Policy, p.Send, p.SendBytes)...)
		}
	}
	if payments[in] == nil && payments[out] == nil {
		return nil
	}
	return &messages{admission: adm, ctx: ctx, payments: payments}
}

// payments returns what the policy takes in one direction: at most one payment.
func (c *Call) payments(by *policy.Policy[*Call, *ownPolicy], each, bytes Limiter) []payment {
	p := payment{policy: by}
	if each != nil && c.Stream {
		p.each = partition.For(each, c)
	}
	if bytes != nil {
		p.bytes.InitBounded(partition.For(bytes, c))
	}
	if p.each == nil && p.bytes.Limiter() == nil {
		return nil
	}
	return []payment{p}
}

// pay pays for a message that has come, or that is to be sent.
func (m *messages) pay(d direction, msg any) error {
	if m == nil {
		return nil
	}
	for i := range m.payments[d] {
		p := &m.payments[d][i]
		if lease, err := m.take(p, msg); err != nil {
			if err := m.explain(p, lease, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// take takes the permits for a message, and returns the lease of a rejection.
func (m *messages) take(p *payment, msg any) (core.Lease, error) {
	if p.each != nil {
		lease, err := hold.Acquire(m.ctx, &m.source, p.each, 1)
		if err != nil {
			return lease, err
		}
		if !m.keep(p, lease) {
			backdoor.Refund(p.each, lease)
			return core.Lease{}, errReturned
		}
	}
	if p.bytes.Limiter() == nil {
		return core.Lease{}, nil
	}
	for rest := size(msg); rest > 0; {
		n, err := p.bytes.Take(m.ctx, &m.source, rest)
		if err != nil {
			return core.Lease{}, err
		}
		p.bytes.Settle(n)
		rest -= n
	}
	return core.Lease{}, nil
}

// explain returns the error for the client of a call whose message got no permits; nil if it may pass all the same.
func (m *messages) explain(p *payment, lease core.Lease, err error) error {
	result := policy.Failed
	switch ended := m.ctx.Err(); {
	case errors.Is(err, errReturned):
		return errReturned
	case ended != nil:
		return &statusError{status.FromContextError(ended), err}
	case policy.Rejected(err):
		result = p.policy.Rejected
	default:
		m.admission.policies.Snapshot.LogFailure(m.ctx, p.policy, err)
		if p.policy.FailOpen {
			return nil
		}
	}
	rejection := newRejection(m.admission, p.policy.Rejection(result, lease, err))
	if result != policy.Failed && p.policy.Own.Code == codes.OK {
		rejection.Code = codes.ResourceExhausted // the lease of bytes does not say what limits them
	}
	return reject(m.ctx, rejection)
}

// errReturned is the error of a message of a call whose handler has returned.
var errReturned = status.Error(codes.Canceled, "the handler has returned")

// keep makes the lease that of the latest message, until it is released, and reports whether the
// handler is still there.
func (m *messages) keep(p *payment, lease core.Lease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		p.lease = lease
	}
	return !m.ended
}

// end ends the waits, and releases what the messages hold.
func (m *messages) end() {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.source.End(errReturned)
	defer m.release(in)
	m.release(out)
}

// release releases what the latest message in that direction holds, last first, even if a Release panics.
func (m *messages) release(d direction) {
	for i := range m.payments[d] {
		defer m.forget(&m.payments[d][i]).Release() //nolint:gocritic,revive // one for each policy
	}
}

// forget returns the lease of the latest message, which the caller releases.
func (m *messages) forget(p *payment) core.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	lease := p.lease
	p.lease = core.Lease{}
	return lease
}

// size returns the encoded size of a message, in bytes.
func size(msg any) int {
	switch m := msg.(type) {
	case proto.Message:
		return proto.Size(m)
	case protoadapt.MessageV1:
		return proto.Size(protoadapt.MessageV2Of(m))
	case interface{ Size() int }:
		return m.Size()
	case []byte:
		return len(m)
	}
	return 0
}
