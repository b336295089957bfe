// Package compat tries httplimit together with what people use beside it: a router, a
// WebSocket library, and a parser of structured fields. It is a module of its own, so that
// those who use httplimit need none of them.
package compat
