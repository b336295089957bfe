package server

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
)

// isGRPC reports whether a request is a call of gRPC, whose client reads a status of gRPC and not one of HTTP.
func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	after, ok := strings.CutPrefix(kind, "application/grpc")
	return ok && r.ProtoMajor == 2 && (after == "" || after[0] == '+' || after[0] == ';')
}

// grpcCode returns the code for a response of HTTP, as gRPC's clients translate one that comes from a proxy.
func grpcCode(status int) codes.Code {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return codes.Unimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Internal
}

// answerGRPC responds to a call with a status alone.
func answerGRPC(w http.ResponseWriter, code codes.Code, message string) {
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(code)))
	h.Set("Grpc-Message", message)
	w.WriteHeader(http.StatusOK)
}

// rejected responds to a request that a policy has rejected. A client of gRPC gets what a server with package grpclimit would send: a
// status whose details have the time to try again, and the same for clients that retry by themselves.
func rejected(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
	if !isGRPC(r) {
		rejection.ServeHTTP(w, r)
		return
	}
	call := grpclimit.Rejection{
		Policy: rejection.Policy, Code: grpcCode(rejection.Status), Lease: rejection.Lease, Err: rejection.Err, RetryAfter: rejection.RetryAfter,
	}
	if !errors.Is(call.Err, core.ErrRejected) && !errors.Is(call.Err, core.ErrPermitsExceedLimit) && !errors.Is(call.Err, context.DeadlineExceeded) {
		answerGRPC(w, call.Code, http.StatusText(rejection.Status)) // the limiter has failed
		return
	}
	for name, values := range call.Trailer() {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	status := call.Status()
	if b, err := proto.Marshal(status.Proto()); err == nil {
		w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(b))
	}
	answerGRPC(w, call.Code, status.Message())
}
