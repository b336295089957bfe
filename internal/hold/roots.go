package hold

import (
	"go/token"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// Rated reports whether all permits of l come back with time, whatever their users do: l is one of core's
// rate limiters, or a chain or a view of nothing else. The leases of any other limiter may hold permits
// until they are released.
func Rated(l core.Limiter) bool {
	switch l := l.(type) {
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		return true
	case *core.ChainedLimiter:
		return !slices.ContainsFunc(l.Limiters(), func(l core.Limiter) bool { return !Rated(l) })
	case interface{ Unwrap() core.Limiter }:
		return isView(l) && Rated(l.Unwrap())
	}
	return false
}

// isView reports whether l is a view made by core. The types of core's views are not exported.
func isView(l any) bool {
	t := reflect.TypeOf(l)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == ofCore && !token.IsExported(t.Elem().Name())
}

var ofCore = reflect.TypeFor[core.Lease]().PkgPath()
