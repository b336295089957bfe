package cli

import (
	"net/netip"
	"strings"
)

const maxHost = 253 // maximum length of a DNS name

// HostOf returns a request's host as backends compare it: in lower case, without the port and without the dot at the end. It
// reports false for what is no host.
func HostOf(host string) (string, bool) {
	name, port := host, ""
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:colon], host[colon+1:]
	}
	if strings.Trim(port, "0123456789") != "" {
		return "", false
	}
	if inside, ok := strings.CutPrefix(name, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		return "[" + a.String() + "]", err == nil && a.Zone() == "" && strings.HasSuffix(inside, "]")
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name, len(name) <= maxHost && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" &&
		!strings.Contains(name, "..") && !strings.HasSuffix(name, ".") && !strings.HasPrefix(name, ".")
}

// IsLocalHost reports whether a request's host is an address or localhost: such a host leads to the same server, whatever answers
// for names. A page in a browser that reaches a server under a name of its own (DNS rebinding) sends that name.
func IsLocalHost(host string) bool {
	name, ok := HostOf(host)
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return ok && (err == nil || name == "localhost")
}
