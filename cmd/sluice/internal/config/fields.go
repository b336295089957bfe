package config

import (
	"net/http"
	"slices"
	"strings"
)

// hopByHop are the fields that concern one connection (RFC 9110, section 7.6.1), as those that Connection names do.
var hopByHop = []string{
	"Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// spoken are the fields by which proxies tell servers about the request of their client, besides all that start with X-Forwarded-
// or X-Original-. Some servers take such a field for the client, for the URL, or for a proxy of their own.
var spoken = []string{
	"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "Cf-Visitor", "Client-Ip", "Cloudfront-Viewer-Address",
	"Fastly-Client-Ip", "Fly-Client-Ip", "Forwarded", "Forwarded-For", "Front-End-Https", "Proxy", "Proxy-Client-Ip",
	"True-Client-Ip", "Wl-Proxy-Client-Ip", "X-Appengine-User-Ip", "X-Arr-Ssl", "X-Azure-Clientip", "X-Azure-Socketip", "X-Client-Ip",
	"X-Cluster-Client-Ip", "X-Envoy-External-Address", "X-Envoy-Original-Path", "X-Forwarded", "X-Host", "X-Http-Host-Override",
	"X-Https", "X-Nf-Client-Connection-Ip", "X-Proxyuser-Ip", "X-Real-Ip", "X-Remote-Addr", "X-Remote-Ip", "X-Rewrite-Url", "X-Scheme",
	"X-Url-Scheme", "X-Vercel-Forwarded-For",
}

// leading are the fields that have a meaning in a header alone, because they frame, route or authenticate a message.
var leading = []string{
	"Authorization", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Cookie", "Expect", "Host",
	"Location", "Max-Forwards", "Range", "Set-Cookie", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
}

// ConcernsConnection reports whether a field concerns one connection whatever Connection names: the proxy never forwards it.
func ConcernsConnection(name string) bool { return slices.Contains(hopByHop, name) }

// SpeaksForClient reports whether a field tells about the request of another client, which only trusted proxies may do.
func SpeaksForClient(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") || slices.Contains(spoken, name)
}

// PassesTrailer reports whether the proxy forwards a trailer of that name. Servers may add trailers to the header.
func PassesTrailer(name string) bool {
	return !ConcernsConnection(name) && !SpeaksForClient(name) && !slices.Contains(leading, name) &&
		!strings.HasPrefix(name, "If-") && PassesHeader(name, false)
}

// PassesHeader reports whether the proxy forwards a header of that name. Programs behind CGI, WSGI and PHP cannot tell some
// names apart: X_Forwarded_For and X.Forwarded.For from X-Forwarded-For, which the proxy sets, and X_Api_Key from X-Api-Key,
// which a limit may count by.
func PassesHeader(name string, underscores bool) bool {
	if underscores {
		return strings.Trim(name, letters+"-_") == ""
	}
	return strings.Trim(name, letters+"-") == ""
}

// DropHopByHop drops the fields of a message that concern its connection: those of that kind, and those that Connection names. An
// upgrade to WebSocket stays, and so does the announcement of a client that it reads trailers.
//
// A ReverseProxy does the same, but late: what reads the header before it would see values that the backend does not get. And it
// forwards an upgrade to any protocol. Over some, such as h2c, further requests would reach the backend past all limits.
func DropHopByHop(h http.Header) {
	upgrade, trailers := h["Upgrade"], hasToken(h["Te"], "trailers")
	upgrades := len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket") && hasToken(h["Connection"], "Upgrade")
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(h, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	if upgrades {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, upgrade
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
}

func hasToken(lines []string, token string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
		return false
	})
}

// checkHeaders finds parts of a key or flow that no backend could check, because the proxy drops or sets the header.
func (c *Config) checkHeaders(p *Policy, fault faultFunc) {
	for _, of := range []struct {
		field string
		key   Key
	}{{"key", p.Key}, {"flow", p.Flow}} {
		for _, part := range of.key {
			const listed = "%s is %s, which clients can set; use %[1]s: ip, and list your proxies in trusted"
			switch name := part.Name; {
			case part.Kind != KeyHeader:
			case ConcernsConnection(name):
				fault(p.at[of.field], "%s is %s, which concerns one connection and is not forwarded; use a header that the backend checks", of.field, part)
			case SpeaksForClient(name) && len(c.Trusted) == 0, name == "X-Forwarded-For", name == "Forwarded":
				fault(p.at[of.field], listed, of.field, part)
			case !PassesHeader(name, c.Underscores):
				fault(p.at[of.field], "%s is %s, but the proxy drops headers with other characters than letters, digits and hyphens; "+
					"with underscores: true, those with underscores pass", of.field, part)
			}
		}
	}
}
