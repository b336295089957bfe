package grpclimit

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// Call is what is known of a call when policies decide about it. It must not be changed.
type Call struct {
	// FullMethod is the method's name, as "/shop.v1.Search/Get".
	FullMethod string

	// Peer is the address of the other side. nil if it is not known, as on a client.
	Peer net.Addr

	// Metadata is what the client sends with the call; keys are in lower case. On a client it
	// holds what [metadata.NewOutgoingContext] and its kin have added so far.
	Metadata metadata.MD

	// Auth is the result of the connection's handshake. nil: there was none, or on a client.
	Auth credentials.AuthInfo

	// Stream is true unless the call is unary. [Limits.Tap] does not know, and leaves it false.
	Stream bool

	// Message is the request of a unary call. nil: a stream, or a call in [Limits.Tap], which
	// decides before the message has come.
	Message any
}

// Limiter decides about calls. [Shared] makes one of a [core.Limiter], for all calls together; a
// [partition.Keyed] has a core.Limiter for each peer, or whatever its Key returns.
type Limiter = partition.Limiter[*Call]

// Shared returns l as the Limiter of a [Policy] or a [Client]: one limit for all calls together.
// It is [partition.Shared] for calls.
func Shared(l core.Limiter) Limiter { return partition.Shared[*Call](l) }

// outgoing returns what a client knows of a call.
func outgoing(ctx context.Context, method string) *Call {
	c := &Call{FullMethod: method}
	c.Metadata, _ = metadata.FromOutgoingContext(ctx)
	return c
}

// HealthAndReflection reports whether the call is one of gRPC's health checks or of its server
// reflection. It suits [Options].Skip.
func HealthAndReflection(c *Call) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(c.FullMethod, "/"), "/")
	switch service {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}
