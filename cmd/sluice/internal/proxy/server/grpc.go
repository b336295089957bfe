package server

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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

// rejected responds to a request that a policy has rejected. A client of gRPC gets the time to try again in both ways that
// clients read: grpc-retry-pushback-ms, and RetryInfo among the details of the status.
func rejected(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
	if !isGRPC(r) {
		rejection.ServeHTTP(w, r)
		return
	}
	code, message := grpcCode(rejection.Status), http.StatusText(rejection.Status)
	if rejection.RetryAfter > 0 {
		milliseconds := (rejection.RetryAfter + time.Millisecond - 1) / time.Millisecond
		w.Header().Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(int64(milliseconds), 10))
		details, err := status.New(code, message).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(rejection.RetryAfter)})
		if b, failed := proto.Marshal(details.Proto()); err == nil && failed == nil {
			w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(b))
		}
	}
	answerGRPC(w, code, message)
}
