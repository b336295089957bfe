// Package shape measures what a limiter makes of a burst of requests, and draws it.
package shape
