// Package nettest holds the ends of pipe.Conns to golang.org/x/net/nettest's TestConn. It
// is a module of its own, so that the library does not require golang.org/x/net.
package nettest
