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
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/limit/meter"
	"github.com/sluice-go/sluice/internal/limit/policy"
	"github.com/sluice-go/sluice/internal/wait"
	"github.com/sluice-go/sluice/partition"
)

// messages takes the permits of a call's messages. Like RecvMsg and SendMsg of a stream, each direction is for one
// goroutine at a time. end may be called meanwhile, because a handler may return while another goroutine still
// receives.
type messages struct {
	admission *admission
	ctx       context.Context // the call's
	source    wait.Source     // ends the waits when the handler has returned
	payments  [2][]payment    // payments in and out

	mu    sync.Mutex // guards ended and the leases of the payments; no other mutex is locked while it is held
	ended bool       // whether the handler has returned; then no lease is kept
}

// direction is that of a message.
type direction int

const (
	in direction = iota
	out
)

// payment takes the permits of one policy for the messages of one direction.
type payment struct {
	policy *policy.Policy[*Call, *ownPolicy]
	ctx    context.Context // the call's, with the policy's flow
	each   core.Limiter    // one permit per message; nil means no limit
	lease  core.Lease      // lease of the latest message
	bytes  meter.Meter
}

// messages returns the messages of the call, or nil if no policy limits them.
func (adm *admission) messages(ctx context.Context) *messages {
	var payments [2][]payment
	for i := range adm.policies.Decisions {
		d := &adm.policies.Decisions[i]
		if p := d.Policy.Own; !p.Shadow {
			payments[in] = adm.call.addPayment(ctx, payments[in], d.Policy, p.Receive, p.ReceiveBytes)
			payments[out] = adm.call.addPayment(ctx, payments[out], d.Policy, p.Send, p.SendBytes)
		}
	}
	if payments[in] == nil && payments[out] == nil {
		return nil
	}
	return &messages{admission: adm, ctx: ctx, payments: payments}
}

// addPayment adds the payment of the policy, unless it does not limit this direction.
func (c *Call) addPayment(ctx context.Context, payments []payment, by *policy.Policy[*Call, *ownPolicy], each, bytes Limiter) []payment {
	p := payment{policy: by, ctx: ctx}
	if each != nil && c.Stream {
		p.each = partition.For(each, c)
	}
	if bytes != nil {
		p.bytes.Init(partition.For(bytes, c))
		p.bytes.Bounded = true
	}
	if p.each == nil && p.bytes.Limiter() == nil {
		return payments
	}
	if by.Flow != nil {
		p.ctx = core.WithFlow(ctx, by.Flow(c))
	}
	return append(payments, p)
}

// pay takes the permits of a message that was received, or that is to be sent. If one policy rejects it, or pay panics,
// the permits that the message took of the others are refunded.
func (m *messages) pay(d direction, msg any) error {
	if m == nil {
		return nil
	}
	paid := false
	defer func() {
		if !paid {
			m.endAll(m.payments[d], core.Lease.Refund)
		}
	}()
	for i := range m.payments[d] {
		p := &m.payments[d][i]
		if lease, err := m.take(p, msg); err != nil {
			if err := m.explain(p, lease, err); err != nil {
				return err
			}
		}
	}
	paid = true
	return nil
}

// take takes the permits of one policy for a message. If it fails, it returns the limiter's lease.
func (m *messages) take(p *payment, msg any) (core.Lease, error) {
	if p.each != nil {
		lease, err := hold.Acquire(p.ctx, &m.source, p.each, 1, false)
		if err != nil {
			return lease, err
		}
		if !m.keep(p, lease) {
			lease.Refund()
			return core.Lease{}, errReturned
		}
	}
	if p.bytes.Limiter() == nil {
		return core.Lease{}, nil
	}
	for rest := size(msg); rest > 0; {
		n, err := p.bytes.Take(p.ctx, &m.source, rest)
		if err != nil {
			return core.Lease{}, err
		}
		p.bytes.Settle(n)
		rest -= n
	}
	return core.Lease{}, nil
}

// explain returns the error for the client of a call whose message got no permits, or nil if FailOpen lets it pass.
func (m *messages) explain(p *payment, lease core.Lease, err error) error {
	result := policy.Failed
	switch ended := m.ctx.Err(); {
	case errors.Is(err, errReturned):
		return errReturned
	case ended != nil:
		return &statusError{status.FromContextError(ended), err, false}
	case policy.Rejected(err):
		result = p.policy.Rejected
	default:
		m.admission.policies.Snapshot.LogFailure(m.ctx, p.policy, err)
		if p.policy.FailOpen {
			return nil
		}
	}
	rejection := newRejection(m.admission, p.policy.Rejection(result, lease, err))
	if _, reported := core.PermitLimit.From(lease); !reported && result != policy.Failed && p.policy.Own.Code == codes.OK {
		rejection.Code = codes.ResourceExhausted // there is no lease of bytes
	}
	return rejection.report(m.ctx, false)
}

// errReturned is the error of a message of a call whose handler has returned.
var errReturned = status.Error(codes.Canceled, "the handler has returned")

// keep stores the lease of the latest message, unless the handler has returned, and reports whether it did.
func (m *messages) keep(p *payment, lease core.Lease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		p.lease = lease
	}
	return !m.ended
}

// end ends the waits, and releases the leases of the messages.
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

// release releases the leases of the latest message in that direction.
func (m *messages) release(d direction) {
	m.endAll(m.payments[d], core.Lease.Release)
}

// endAll ends the leases of the payments, last first, all of them even if a function panics.
func (m *messages) endAll(payments []payment, end func(core.Lease)) {
	n := len(payments)
	if n == 0 {
		return
	}
	defer m.endAll(payments[:n-1], end)
	p := &payments[n-1]
	m.mu.Lock()
	lease := p.lease
	p.lease = core.Lease{}
	m.mu.Unlock()
	if lease.Acquired() {
		end(lease)
	}
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
