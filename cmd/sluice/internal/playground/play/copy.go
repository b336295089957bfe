package play

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// goKeys are the keys as code that finds them in a request of net/http.
var goKeys = map[string]string{
	"ip":      "httplimit.ByIP(httplimit.IPOptions{})",
	"client":  "httplimit.ByIP(httplimit.IPOptions{})",
	"user":    "func(r *http.Request) string { user, _, _ := r.BasicAuth(); return user }",
	"host":    "func(r *http.Request) string { return r.Host }",
	"method":  "func(r *http.Request) string { return r.Method }",
	"path":    "func(r *http.Request) string { return r.URL.Path }",
	"agent":   "(*http.Request).UserAgent",
	"referer": "(*http.Request).Referer",
	"key":     `func(r *http.Request) string { return r.Header.Get("X-Api-Key") }`,
}

// goCode returns a function that makes the limiter: one, or one per key.
func goCode(limits spec.Limits, key string) string {
	limit, parse := limits.String(), "Parse"
	if len(limits) > 1 {
		parse = "ParseLimits"
	}
	if key == "" {
		return fmt.Sprintf(`import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func newLimiter() (core.Limiter, error) {
	limit, err := spec.%s(%q)
	if err != nil {
		return nil, err
	}
	return limit.New("api")
}
`, parse, limit)
	}
	of, imports := "string", ""
	if key == "ip" || key == "client" {
		of, imports = "netip.Prefix", "\t\"net/netip\"\n"
	}
	http := ""
	if of != "string" {
		http = "\t\"github.com/sluice-go/sluice/httplimit\"\n"
	}
	return fmt.Sprintf(`import (
	"net/http"
%s
	"github.com/sluice-go/sluice/core"
%s	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// newLimiters returns one limiter per %s, to use as the Limiter of an httplimit.Policy.
func newLimiters() (*partition.Keyed[*http.Request, %s], error) {
	limit, err := spec.%s(%q)
	if err != nil {
		return nil, err
	}
	return partition.New(partition.Options[*http.Request, %s]{
		Key: %s,
		New: func(%s) (core.Limiter, error) { return limit.New("api") },
	})
}
`, imports, http, key, of, parse, limit, of, goKeys[key], of)
}

// yamlKeys are the keys of the proxy that are those of a log.
var yamlKeys = map[string]string{
	"ip": "ip", "client": "ip", "host": "host", "path": "pattern",
	"agent": "header:User-Agent", "referer": "header:Referer", "key": "header:X-Api-Key", "user": "header:Authorization",
}

// yaml returns a configuration of the proxy. Requests that wait must have a longest wait there: here the longest that was
// seen, rounded up.
func yaml(limits spec.Limits, key, flow string, longest int64) string {
	policy := "limit: " + limits.String()
	if len(limits) > 1 {
		policy = "limit: " + strconv.Quote(limits.String()) // it has a comma
	}
	if key != "" {
		k, ok := yamlKeys[key]
		if !ok {
			return "# The proxy has no policies by " + key + ": give each its route.\n"
		}
		policy = "key: " + k + ", " + policy
	}
	if k, ok := yamlKeys[flow]; ok && has(limits, isFair) {
		policy += ", flow: " + k
	}
	if has(limits, func(l spec.Limit) bool { return l.Queue > 0 }) {
		wait := (time.Duration(longest) + time.Second - 1).Truncate(time.Second)
		policy += fmt.Sprintf(", max-wait: %ds", max(wait/time.Second, 1))
	}
	return `listen: ":8080"
to: http://127.0.0.1:9000
policies:
  api: {` + policy + `}
routes:
  "/": api
`
}

// command returns a command line that plays the same.
func command(limits spec.Limits, in Input) string {
	words := []string{"sluice", "simulate", "--limit", cli.Quote(limits.String())}
	if in.Key != "" {
		words = append(words, "--key", cli.Quote(in.Key))
	}
	if in.Flow != "" && has(limits, isFair) {
		words = append(words, "--flow", cli.Quote(in.Flow))
	}
	if in.Arrivals != "" {
		words = append(words, "--arrivals", cli.Quote(in.Arrivals), "--seed", strconv.FormatUint(in.Seed, 10))
		if in.Takes != "" && has(limits, func(l spec.Limit) bool { return l.Kind == spec.Concurrency }) { // else it makes no difference
			words = append(words, "--takes", cli.Quote(in.Takes))
		}
		return strings.Join(words, " ") + "\n"
	}
	if in.Fields != "" {
		words = append(words, "--fields", cli.Quote(in.Fields))
	}
	if in.Exact {
		words = append(words, "--exact")
	}
	name := in.Log
	if name == "" {
		name = "access.log"
	}
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return strings.Join(append(words, cli.Quote(name)), " ") + "\n"
}

func isFair(l spec.Limit) bool { return l.Order == core.FairShare }
