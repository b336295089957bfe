package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

// reload reads the file again. If anything is wrong, it prints what, and nothing changes. asked is true on SIGHUP.
func (p *Proxy) reload(asked bool) {
	if asked && p.access != nil {
		p.access.Reopen()
	}
	if err := p.load(); err != nil {
		cli.SayAll(p.say, err)
		p.say("reload failed; keeping the previous configuration")
		return
	}
	p.say("reloaded %s", p.file)
	p.WarnUnlimited()
}

// WarnUnlimited prints a warning if there is no limit on anything.
func (p *Proxy) WarnUnlimited() {
	if why := p.state.Load().config.Unlimited(); why != "" {
		p.say("%s: warning: nothing is limited; %s", p.file, why)
	}
}

// load reads the file and applies it.
func (p *Proxy) load() error {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	c, err := config.Parse(p.file, text)
	if c == nil {
		return err
	}
	cert, pairErr := keyPair(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.applyLocked(c, cert, yamlconf.Join(err, pairErr)); err != nil {
		return err
	}
	for _, w := range c.Warnings() {
		p.say("%v", w)
	}
	return nil
}

// applyLocked applies a configuration as a whole. If anything is wrong with it, or was found wrong before, nothing changes.
func (p *Proxy) applyLocked(c *config.Config, cert *tls.Certificate, wrong error) error {
	before := p.state.Load()
	urls, err := c.Backends()
	faults := []error{wrong, err, checkFixed(before.config, c)}
	if before.config == nil && c.Redis != "" && wrong == nil {
		if p.store, err = shared.Open(c.Redis, c.RedisTimeout); err != nil {
			return yamlconf.Join(append(faults, c.Fault(c.Where("redis"), "redis: %v", err))...)
		}
	}
	if p.keys == nil {
		p.keys = limits.NewKeys(c.Keys, c.Trusted)
	}
	set, err := limits.New(c, p.store, p.keys, before.limits)
	if err := yamlconf.Join(append(faults, err)...); err != nil {
		return err
	}
	next := &state{config: c, cert: cert, limits: set}
	if err := p.route(next); err != nil {
		return err
	}
	if before.config != nil { // at the start this is done before the proxy listens
		set.Warm()
	}
	// From here on nothing can fail.
	p.keys.Trust(c.Trusted)
	p.backends.Set(urls, c.BackendTimeout, c.KeepHost)
	p.state.Store(next)
	set.Apply()
	return nil
}

// keyPair reads the certificate and its key. It returns nil if c has none.
func keyPair(c *config.Config) (*tls.Certificate, error) {
	if c.Cert == "" || c.Key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, c.Fault(c.Where("cert"), "tls: %s", strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &pair, nil
}

// checkFixed finds changes that need a restart, and at the start an access log that could not be opened.
func checkFixed(before, c *config.Config) (faults error) {
	if before == nil {
		if _, err := os.Stat(filepath.Dir(c.AccessLog)); err != nil {
			return c.Fault(c.Where("access-log"), "access-log: %v", err)
		}
		return nil
	}
	for _, f := range []struct {
		key  string
		same bool
	}{
		{"listen", c.Listen == before.Listen},
		{"admin", c.Admin == before.Admin},
		{"access-log", c.AccessLog == before.AccessLog},
		{"format", c.LogFormat == before.LogFormat},
		{"keys", c.Keys == before.Keys},
		{"redis", c.Redis == before.Redis},
		{"redis-timeout", c.RedisTimeout == before.RedisTimeout},
	} {
		if !f.same {
			faults = errors.Join(faults, c.Fault(c.Where(f.key), "%s: changing it requires a restart", f.key))
		}
	}
	if (c.Cert == "") != (before.Cert == "") {
		faults = errors.Join(faults, c.Fault(c.Where("tls"), "tls: switching TLS on or off requires a restart"))
	}
	return faults
}

// change replaces the limits of one policy until the file is read again.
func (p *Proxy) change(name string, terms spec.Limits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.state.Load()
	policy, err := now.limits.Policy(name)
	if err != nil {
		return err
	}
	if len(policy.Limits) == 0 {
		return fmt.Errorf("policy %s has no limit on requests that PUT could change; change its limits in %s", name, p.file)
	}
	next := policy.Policy
	next.Limits = nil
	for _, l := range terms {
		if l.Bytes {
			return fmt.Errorf("%q is an amount of bytes, but the limit counts requests; write a number such as 10/s, without B", l)
		}
		next.Limits = append(next.Limits, config.Limit{Limit: l, At: policy.At})
	}
	if err := next.CheckLimits(); err != nil {
		return err
	}
	c := *now.config
	c.Policies = slices.Clone(c.Policies)
	if policy == now.limits.Global {
		c.Global = &next
	}
	for i := range c.Policies {
		if c.Policies[i].Name == name {
			c.Policies[i] = next
		}
	}
	return p.applyLocked(&c, now.cert, nil)
}
