package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sluice-go/sluice/internal/policy"
)

// Unary returns an interceptor for a server's unary calls.
func (l *Limits) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		adm := l.begin(ctx, info.FullMethod)
		adm.call.Message = req
		defer func() { adm.end(ctx, err) }()
		if adm.skipped() {
			return handler(ctx, req)
		}
		if err := adm.admit(ctx, policy.Wait, setTrailer); err != nil {
			return nil, err
		}
		m := adm.messages(ctx)
		defer m.end()
		if err := m.received(req); err != nil {
			return nil, err
		}
		adm.stage = serving
		resp, err = handler(ctx, req)
		adm.stage = served
		if err == nil {
			err = m.sending(resp)
		}
		return resp, err
	}
}

// Stream returns an interceptor for a server's streams.
func (l *Limits) Stream() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		ctx := ss.Context()
		adm := l.begin(ctx, info.FullMethod)
		adm.call.Stream = true
		defer func() { adm.end(ctx, err) }()
		if adm.skipped() {
			return handler(srv, ss)
		}
		if err := adm.admit(ctx, policy.Wait, setTrailer); err != nil {
			return err
		}
		if m := adm.messages(ctx); m != nil {
			defer m.end()
			ss = &stream{ss, m}
		}
		adm.stage = serving
		err = handler(srv, ss)
		adm.stage = served
		return err
	}
}

// stream is a server's stream whose messages are limited.
type stream struct {
	grpc.ServerStream

	messages *messages
}

// RecvMsg receives a message, and pays for it before the handler gets it.
func (s *stream) RecvMsg(msg any) error {
	s.messages.handled()
	if err := s.ServerStream.RecvMsg(msg); err != nil {
		return err
	}
	return s.messages.received(msg)
}

// SendMsg pays for a message, and sends it.
func (s *stream) SendMsg(msg any) error {
	if err := s.messages.sending(msg); err != nil {
		return err
	}
	defer s.messages.sent()
	return s.ServerStream.SendMsg(msg)
}

// setTrailer sets the trailer of the call of that context. It fails where there is no server, as in
// a test that calls an interceptor by hand.
func setTrailer(ctx context.Context, md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }
