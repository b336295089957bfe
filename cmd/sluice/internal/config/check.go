package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// faultFunc adds a fault at a place.
type faultFunc = func(at yamlconf.Place, format string, args ...any)

// check finds errors that no single value shows.
func (c *Config) check(fault faultFunc) {
	for _, a := range []struct{ what, value string }{{"listen", c.Listen}, {"admin", c.Admin}} {
		if a.value != "" {
			if _, port, err := net.SplitHostPort(a.value); err != nil || !isPort(port) {
				fault(c.at[a.what], "%s is %q, want an address such as :8080 or 127.0.0.1:8080", a.what, a.value)
			}
		}
	}
	if host, port, err := net.SplitHostPort(c.Admin); err == nil && c.leadsBack(host, port) {
		fault(c.at["admin"], "admin is %q, where listen is", c.Admin)
	}
	if c.Redis != "" {
		u, err := url.Parse(c.Redis)
		if err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) { // its text may hold a password
			fault(c.at["redis"], "redis is not a URL such as redis://127.0.0.1:6379/0 or redis://:PASSWORD@HOST:6379/0, with %%40 for an @ in PASSWORD")
		}
	}
	c.checkRoutes(fault)
	c.checkPolicies(fault)
}

// Warnings returns a warning for each setting that has no effect. It may be a mistake, but is not an error.
func (c *Config) Warnings() (all []error) {
	warn := func(at yamlconf.Place, format string, args ...any) {
		all = append(all, c.Fault(at, "warning: "+format, args...))
	}
	used := make(map[string]bool)
	for _, r := range c.Routes {
		for _, name := range r.Policies {
			used[name] = true
		}
	}
	for i, p := range c.AllPolicies() {
		if isGlobal := c.Global != nil && i == 0; !isGlobal && !used[p.Name] {
			warn(p.At, "no route has policy %q", p.Name)
		}
		if p.FailOpen && c.Redis == "" {
			warn(p.at["fail-open"], "fail-open of %s has no effect without redis", p.what)
		}
	}
	return all
}

// Unlimited returns why nothing is limited, and what to do about it; "" if something is.
func (c *Config) Unlimited() string {
	applied := make([]Policy, 0, len(c.Policies)+1) // the policies that apply to something
	if c.Global != nil {
		applied = append(applied, *c.Global)
	}
	for _, p := range c.Policies {
		if slices.ContainsFunc(c.Routes, func(r Route) bool { return slices.Contains(r.Policies, p.Name) }) {
			applied = append(applied, p)
		}
	}
	limiting := slices.DeleteFunc(slices.Clone(applied), func(p Policy) bool { return p.Shadow })
	all := slices.Concat(c.Connections, c.ConnectionsPerIP)
	for _, p := range limiting {
		all = slices.Concat(all, p.all(), p.Upload, p.Download)
	}
	switch {
	case slices.ContainsFunc(all, func(l Limit) bool { return l.Kind != spec.Unlimited }):
		return ""
	case len(all) > 0:
		return "all limits are unlimited"
	case len(applied) > 0:
		return "policies in shadow reject nothing; remove shadow to enforce them"
	}
	return "add global, or policies and routes that use them"
}

// leadsBack reports whether a connection to an address reaches the listener of this proxy: host and port of it are those
// of listen, or are this machine's.
func (c *Config) leadsBack(host, port string) bool {
	own, ownPort, err := net.SplitHostPort(c.Listen)
	return err == nil && port == ownPort && port != "0" && (host == own || isLocal(host) && isLocal(own))
}

func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || err == nil && (a.IsLoopback() || a.IsUnspecified())
}

func (c *Config) checkPolicies(fault faultFunc) {
	for _, p := range c.Policies {
		if p.Name == "global" || p.Name == "none" {
			fault(p.At, "policy name %q is reserved", p.Name)
		}
	}
	for _, p := range c.AllPolicies() {
		c.checkHeaders(&p, fault)
		p.checkFlow(fault)
		if p.MaxWait > 0 && !slices.ContainsFunc(p.all(), func(l Limit) bool { return l.Queue > 0 }) {
			fault(p.at["max-wait"], "max-wait has no effect, because no limit of %s has a queue; add one, such as limit: 100/s queue 50", p.what)
		}
		for _, l := range p.all() {
			if err := p.checkLimit(l.Limit); err != nil {
				fault(l.At, "%v", err)
			}
		}
		p.Overrides.checkPatterns(fault, p.Key, c.Mux)
	}
}

// all returns the limits of p on requests, and those of its overrides.
func (p *Policy) all() []Limit {
	all := slices.Clone(p.Limits)
	for _, o := range p.Overrides.All {
		all = append(all, o.Limits...)
	}
	return all
}

// CheckLimits returns an error for each limit of p that has a queue in which no one could wait, or that no request could
// pass.
func (p *Policy) CheckLimits() error {
	var err error
	for _, l := range p.all() {
		err = errors.Join(err, p.checkLimit(l.Limit))
	}
	return err
}

func (p *Policy) checkLimit(l spec.Limit) error {
	if l.Queue > 0 && p.MaxWait == 0 {
		return fmt.Errorf("%q has a queue but the policy has no max-wait; add one, such as max-wait: 10s", l)
	}
	made, err := l.New("")
	if err != nil {
		return nil //nolint:nilerr // the constructor of the limiter reports it
	}
	if of, ok := made.(core.Reporter); ok && l.Kind != spec.Unlimited && l.Kind != spec.Blocked && l.Kind != spec.Paused && p.Cost > of.Statistics().Limit {
		if l.Kind == spec.TokenBucket {
			return fmt.Errorf("%q never has the %d permits that a request costs: raise it, or add a burst of %[2]d", l, p.Cost)
		}
		return fmt.Errorf("%q never has the %d permits that a request costs: raise it, or lower cost", l, p.Cost)
	}
	return nil
}

// checkRoutes makes the mux, and finds routes that cannot be and policies that there are not.
func (c *Config) checkRoutes(fault faultFunc) {
	policies := make(map[string]*Policy)
	for i := range c.Policies {
		policies[c.Policies[i].Name] = &c.Policies[i]
	}
	routes := make([]route.Route, len(c.Routes))
	for i, r := range c.Routes {
		routes[i].Pattern = r.Pattern
		if !r.Exempt {
			routes[i].Segments = segments(nil, c.Global)
		}
		for _, name := range r.Policies {
			p := policies[name]
			if p == nil {
				fault(r.At, "route %q: no policy is named %q", r.Pattern, name)
				continue
			}
			routes[i].Segments = segments(routes[i].Segments, p)
		}
	}
	var errs []error
	c.Mux, errs = route.New(routes)
	for i, err := range errs {
		if err != nil {
			fault(c.Routes[i].At, "route %v", err)
		}
	}
}

// isPort reports whether a text is a port number or the name of a known port. An empty text stands for any port.
func isPort(port string) bool {
	if port == "" {
		return true
	}
	_, err := net.LookupPort("tcp", port) //nolint:noctx // it looks into a file
	return err == nil
}

var defaultPorts = map[string]string{"http": "80", "h2c": "80", "https": "443", "h2": "443"}

// Backends returns the URLs of to. Their schemes are http, https, h2c (HTTP/2 without TLS) and h2 (HTTP/2 with TLS).
func (c *Config) Backends() ([]*url.URL, error) {
	var errs []error
	fault := func(at yamlconf.Place, format string, args ...any) { errs = append(errs, c.Fault(at, format, args...)) }
	var urls []*url.URL
	for _, to := range c.To {
		u, err := url.Parse(to)
		switch {
		case err == nil && u.User != nil:
			fault(c.at["to "+to], "to has a user name, but the proxy does not log in to backends")
		case err != nil || !slices.Contains([]string{"http", "https", "h2c", "h2"}, u.Scheme) ||
			u.Hostname() == "" || !isPort(u.Port()) || u.RawQuery != "" || u.Fragment != "":
			fault(c.at["to "+to], "to is %q, want a URL such as http://127.0.0.1:9000", to)
		case c.leadsBack(u.Hostname(), cmp.Or(u.Port(), defaultPorts[u.Scheme])):
			fault(c.at["to "+to], "to is %q, where listen is", to)
		default:
			urls = append(urls, u)
		}
	}
	if len(c.To) == 0 {
		fault(c.Where(""), "to is missing; add the URL of a backend, such as to: http://127.0.0.1:9000")
	}
	if c.Listen == "" {
		fault(c.Where(""), "listen is missing; add an address for clients, such as listen: \":8080\"")
	}
	return urls, yamlconf.Join(errs...)
}
