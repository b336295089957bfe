package limitertest

import (
	"errors"
	"io"

	"github.com/sluice-go/sluice/core"
)

// Interfaces is a set of optional interfaces, for [Config].Lacks.
type Interfaces uint16

// The optional interfaces that a limiter may implement, in addition to core.Limiter.
const (
	Reporter    Interfaces = 1 << iota // core.Reporter
	Idler                              // core.Idler
	Refunder                           // core.Refunder
	Replenisher                        // core.Replenisher
	Closer                             // io.Closer
	Settler                            // core.Settler
	Resetter                           // core.Resetter
	Reserver                           // core.Reserver

	unknownInterfaces // this bit and those above
)

// optional is the table of the optional interfaces, with functions that report whether a limiter has them.
var optional = []struct {
	Interfaces
	name string
	of   func(core.Limiter) bool
}{
	{Reporter, "core.Reporter", is[core.Reporter]},
	{Idler, "core.Idler", is[core.Idler]},
	{Refunder, "core.Refunder", is[core.Refunder]},
	{Replenisher, "core.Replenisher with a period", replenishes},
	{Closer, "io.Closer", is[io.Closer]},
	{Settler, "core.Settler", is[core.Settler]},
	{Resetter, "core.Resetter", is[core.Resetter]},
	{Reserver, "core.Reserver", reserves},
}

func is[T any](l core.Limiter) bool {
	_, ok := l.(T)
	return ok
}

// replenishes reports whether permits come back with time: a chain is a Replenisher with a period of 0
// if nothing in it replenishes.
func replenishes(l core.Limiter) bool {
	r, ok := l.(core.Replenisher)
	return ok && r.ReplenishmentPeriod() > 0
}

// reserves reports whether the limiter can reserve. Reserve of a chain or a view of a limiter that is no Reserver
// fails, with an error that is not one of core's.
func reserves(l core.Limiter) bool {
	r, ok := l.(core.Reserver)
	if !ok {
		return false
	}
	err := r.Reserve(0).Err()
	return err == nil || errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrClosed) ||
		errors.Is(err, core.ErrPermitsExceedLimit) || errors.Is(err, core.ErrNegativePermits)
}

// interfacesOf returns the optional interfaces of a limiter.
func interfacesOf(l core.Limiter) (all Interfaces) {
	for _, i := range optional {
		if i.of(l) {
			all |= i.Interfaces
		}
	}
	return all
}
