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

// Call describes a call to policies. It must not be modified.
type Call struct {
	// FullMethod is the full name of the method, such as "/shop.v1.Search/Get".
	FullMethod string

	// Peer is the address of the client. It is nil if it is unknown, and on clients.
	Peer net.Addr

	// Metadata is the metadata that the client sends with the call; keys are in lower case. On a
	// client it contains the metadata of the outgoing context, see [metadata.NewOutgoingContext].
	Metadata metadata.MD

	// Auth is the result of the connection's handshake. It is nil without a handshake, and on clients.
	Auth credentials.AuthInfo

	// Stream reports whether the call is a stream. In [Limits.Tap], where this is unknown, it is
	// always false.
	Stream bool

	// Message is the request of a unary call. It is nil for streams, and in [Limits.Tap], which
	// decides before the message has arrived.
	Message any
}

// Limiter limits calls. [Shared] turns a [core.Limiter] into one limit for all calls; a
// [partition.Keyed] has a core.Limiter per peer, or per whatever its Key returns.
type Limiter = partition.Limiter[*Call]

// Shared returns l as the Limiter of a [Policy] or a [Client]: one limit for all calls. It is
// [partition.Shared] for calls.
func Shared(l core.Limiter) Limiter { return partition.Shared[*Call](l) }

// outgoing returns the Call of a client.
func outgoing(ctx context.Context, method string) *Call {
	c := &Call{FullMethod: method}
	c.Metadata, _ = metadata.FromOutgoingContext(ctx)
	return c
}

// HealthAndReflection reports whether the call is one of gRPC's health checks or of its server
// reflection. Use it as [Options].Skip.
func HealthAndReflection(c *Call) bool {
	service, _, _ := strings.Cut(strings.TrimPrefix(c.FullMethod, "/"), "/")
	switch service {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}
