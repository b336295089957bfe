// Package sample has one of each kind of exported identifier, and hidden ones beside them.
package sample

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
)

// Order is a named basic type.
type Order uint8

// Two constants, the second implied.
const (
	First Order = iota
	Second
)

// Name is an untyped constant.
const Name = "a\nname"

// ErrGone has an inferred type.
var ErrGone = errors.New("gone")

var hidden = 1

// Do has a generic result and named parameters.
func Do[T any, K comparable](ctx context.Context, key K, f func(context.Context) (T, error), rest ...int) (v T, err error) {
	_, _, _, _ = ctx, key, f, rest
	return v, err
}

// Map is generic, without names for its results.
func Map[In, Out any](in iter.Seq[In], f func(In) (Out, error)) iter.Seq2[Out, error] { return nil }

// Options has exported and hidden fields.
type Options struct {
	Limit  int `json:"limit"`
	Client *http.Client
	hidden int
	engine
	*sync.Once
}

// Box is generic.
type Box[T any] struct {
	mu sync.Mutex
	v  T
}

// Get has a pointer receiver.
func (b *Box[T]) Get() T { return b.v }

// All has a value receiver, and an iterator as its result.
func (b Key) All() iter.Seq2[string, any] { return nil }

// Key can be compared.
type Key struct{ s string }

// Any returns out of a range over a function, whose results the compiler names.
func (b Key) Any() (string, any) {
	for k, v := range b.All() {
		return k, v
	}
	return "", nil
}

// List cannot.
type List struct{ s []string }

type engine struct{ Promoted bool }

// Start is promoted.
func (e *engine) Start() { _ = hidden }

// Waiter is an interface with an embedded one.
type Waiter interface {
	Stopper
	Wait(ctx context.Context) error
}

// Plain is comparable, with fields alone.
type Plain struct{ X, Y int }

// Stopper cannot be implemented elsewhere.
type Stopper interface {
	Stop()
	sealed()
}

// Number is a constraint.
type Number interface{ ~int | ~float64 }

// Alias is another name.
type Alias = http.Header

// Func is a function type with a method.
type Func func(int) error

// Call calls it.
func (f Func) Call() error { return f(0) }
