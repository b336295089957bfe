package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/httplimit"
)

// Codes of gRPC.
const (
	grpcInternal          = 13
	grpcUnimplemented     = 12
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// isGRPC reports whether a request is a call of gRPC, whose client reads a status of gRPC and not one of HTTP.
func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	after, ok := strings.CutPrefix(kind, "application/grpc")
	return ok && r.ProtoMajor == 2 && (after == "" || after[0] == '+' || after[0] == ';')
}

// grpcCode returns the code for an answer of HTTP, as gRPC's clients translate one that comes from a proxy.
func grpcCode(status int) int {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return grpcResourceExhausted
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return grpcUnimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return grpcUnavailable
	}
	return grpcInternal
}

// answerGRPC answers a call with a status alone.
func answerGRPC(w http.ResponseWriter, code int, message string) {
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(code))
	h.Set("Grpc-Message", message)
	w.WriteHeader(http.StatusOK)
}

// rejected answers a request that a policy has rejected. A client of gRPC that retries is told when, as
// grpc-retry-pushback-ms has it.
func rejected(w http.ResponseWriter, r *http.Request, no *httplimit.Rejection) {
	if !isGRPC(r) {
		no.ServeHTTP(w, r)
		return
	}
	if no.RetryAfter > 0 {
		milliseconds := (no.RetryAfter + time.Millisecond - 1) / time.Millisecond
		w.Header().Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(int64(milliseconds), 10))
	}
	answerGRPC(w, grpcCode(no.Status), http.StatusText(no.Status))
}
