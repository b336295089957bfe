// Package adaptive has limiters that find their limits themselves.
package adaptive
