// Package nettest holds the connections of ioreader to golang.org/x/net/nettest. It is a
// module of its own, so that the library does not depend on x/net.
package nettest
