package config

import (
	"net/http"
	"slices"
	"strings"
)

// reason is why the proxy withholds a field from the backend.
type reason uint8

const (
	connection reason = iota + 1 // it concerns one connection (RFC 9110, section 7.6.1): it never passes
	client                       // proxies tell servers in it about the request of their client: it passes from trusted proxies alone
	leading                      // it frames, routes or authenticates a message: it passes in a header, and not as a trailer
)

// withheld are the fields that a client may not send, or not as a trailer: see reasonOf, which also knows their families. Some servers
// take a field for the client, for the URL, or for a proxy of their own.
var withheld = map[string]reason{
	"Connection": connection, "Http2-Settings": connection, "Keep-Alive": connection, "Proxy-Authenticate": connection,
	"Proxy-Authentication-Info": connection, "Proxy-Authorization": connection, "Proxy-Connection": connection, "Te": connection,
	"Trailer": connection, "Transfer-Encoding": connection, "Upgrade": connection,

	"Cf-Connecting-Ip": client, "Cf-Connecting-Ipv6": client, "Cf-Pseudo-Ipv4": client, "Cf-Visitor": client, "Client-Ip": client,
	"Cloudfront-Viewer-Address": client, "Fastly-Client-Ip": client, "Fly-Client-Ip": client, "Forwarded": client,
	"Forwarded-For": client, "Front-End-Https": client, "Proxy": client, "Proxy-Client-Ip": client, "True-Client-Ip": client,
	"Wl-Proxy-Client-Ip": client, "X-Appengine-User-Ip": client, "X-Arr-Ssl": client, "X-Azure-Clientip": client,
	"X-Azure-Socketip": client, "X-Client-Ip": client, "X-Cluster-Client-Ip": client, "X-Envoy-External-Address": client,
	"X-Envoy-Original-Path": client, "X-Forwarded": client, "X-Host": client, "X-Http-Host-Override": client, "X-Https": client,
	"X-Nf-Client-Connection-Ip": client, "X-Proxyuser-Ip": client, "X-Real-Ip": client, "X-Remote-Addr": client,
	"X-Remote-Ip": client, "X-Rewrite-Url": client, "X-Scheme": client, "X-Url-Scheme": client, "X-Vercel-Forwarded-For": client,

	"Authorization": leading, "Cache-Control": leading, "Content-Encoding": leading, "Content-Length": leading,
	"Content-Range": leading, "Content-Type": leading, "Cookie": leading, "Expect": leading, "Host": leading, "Location": leading,
	"Max-Forwards": leading, "Range": leading, "Set-Cookie": leading, "X-Http-Method": leading, "X-Http-Method-Override": leading,
	"X-Method-Override": leading,
}

// reasonOf returns why a field is withheld, or 0.
func reasonOf(name string) reason {
	switch {
	case strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "X-Original-"):
		return client
	case strings.HasPrefix(name, "If-"):
		return leading
	}
	return withheld[name]
}

// ConcernsConnection reports whether a field concerns one connection whatever Connection names: the proxy never forwards it.
func ConcernsConnection(name string) bool { return reasonOf(name) == connection }

// SpeaksForClient reports whether a field tells about the request of another client, which only trusted proxies may do.
func SpeaksForClient(name string) bool { return reasonOf(name) == client }

// PassesTrailer reports whether the proxy forwards a trailer of that name. Servers may add trailers to the header.
func PassesTrailer(name string) bool { return reasonOf(name) == 0 && PassesHeader(name, false) }

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
	for name := range h {
		if ConcernsConnection(name) {
			delete(h, name)
		}
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
