// Package api lists the exported API of the module's packages, as text with one line for each identifier.
//
// The listings are recorded in the folder api at the module's root, and the package's test fails when they no longer
// tell the truth: a change of the API shows in review as a change of these files. It is a listing and not a judgement,
// so it says the same of a break, an addition and a renamed parameter.
package api

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Listing is the exported API of one package.
type Listing struct {
	Path  string   // import path, relative to the module
	Lines []string // one for each exported identifier, a type's members below it
}

// String returns the listing as it is recorded.
func (l Listing) String() string {
	return "package " + l.Path + "\n\n" + strings.Join(l.Lines, "\n") + "\n"
}

// listing of p, whose import path begins with the module's.
func newListing(p *types.Package, module string) Listing {
	w := &writer{pkg: p, module: module}
	for _, name := range p.Scope().Names() {
		if token.IsExported(name) {
			w.object(p.Scope().Lookup(name))
		}
	}
	return Listing{Path: strings.TrimPrefix(p.Path(), module+"/"), Lines: w.lines}
}

// writer gathers the lines of one package's listing.
type writer struct {
	pkg    *types.Package
	module string
	lines  []string
}

func (w *writer) addf(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *writer) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		w.addf("const %s %s = %s", o.Name(), w.typ(o.Type()), o.Val().ExactString())
	case *types.Var:
		w.addf("var %s %s", o.Name(), w.typ(o.Type()))
	case *types.Func:
		w.addf("func %s%s", o.Name(), w.signature(o))
	case *types.TypeName:
		w.typeName(o)
	}
}

func (w *writer) typeName(o *types.TypeName) {
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if o.IsAlias() || !ok {
		w.addf("type %s = %s", o.Name(), w.typ(types.Unalias(o.Type())))
		return
	}
	name := o.Name() + w.typeParams(named.TypeParams())
	switch u := named.Underlying().(type) {
	case *types.Struct:
		w.addf("type %s struct%s", name, comparability(named))
		w.fields(o.Name(), u, "")
		w.methods(named)
	case *types.Interface:
		w.interfaceType(o.Name(), name, u)
	default:
		w.addf("type %s %s", name, w.typ(u))
		w.methods(named)
	}
}

// comparability tells whether values can be compared, and so be a map's key: that is API too, and a field that nobody
// sees may change it. It is nothing to the users of a type that is handled by pointer.
func comparability(named *types.Named) string {
	values := types.NewMethodSet(named)
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if m.Obj().Exported() && values.Lookup(m.Obj().Pkg(), m.Obj().Name()) == nil {
			return ""
		}
	}
	if types.Comparable(named) {
		return ", comparable"
	}
	return ""
}

// fields lists the exported fields of s, and those that an embedded type promotes although its own name is hidden.
func (w *writer) fields(of string, s *types.Struct, through string) {
	for i := range s.NumFields() {
		f := s.Field(i)
		switch {
		case f.Exported():
			embedded := ""
			if f.Embedded() {
				embedded = ", embedded"
			}
			w.addf("field %s.%s%s %s%s%s", of, through, f.Name(), w.typ(f.Type()), tag(s.Tag(i)), embedded)
		case f.Embedded():
			if inner, ok := pointee(f.Type()).Underlying().(*types.Struct); ok {
				w.fields(of, inner, through+"("+f.Name()+").")
			}
		}
	}
}

func tag(t string) string {
	if t == "" {
		return ""
	}
	return " `" + t + "`"
}

func pointee(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// methods lists all exported methods that a *T has, promoted ones included, each with the receiver that it needs.
func (w *writer) methods(named *types.Named) {
	values := types.NewMethodSet(named)
	pointers := types.NewMethodSet(types.NewPointer(named))
	for m := range pointers.Methods() {
		f, ok := m.Obj().(*types.Func)
		if !ok || !f.Exported() {
			continue
		}
		receiver := w.typ(named)
		if values.Lookup(f.Pkg(), f.Name()) == nil {
			receiver = "*" + receiver
		}
		w.addf("method (%s) %s%s", receiver, f.Name(), w.signature(f))
	}
}

func (w *writer) interfaceType(name, declared string, t *types.Interface) {
	if !t.IsMethodSet() {
		w.addf("type %s %s", declared, w.typ(t))
		return
	}
	hidden := ""
	var methods []string
	for m := range t.Methods() {
		if m.Exported() {
			methods = append(methods, fmt.Sprintf("method %s.%s%s", name, m.Name(), w.signature(m)))
		} else {
			hidden = ", with unexported methods"
		}
	}
	slices.Sort(methods)
	w.addf("type %s interface%s", declared, hidden)
	w.lines = append(w.lines, methods...)
}

func (w *writer) typeParams(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	params := make([]string, 0, list.Len())
	for p := range list.TypeParams() {
		params = append(params, p.Obj().Name()+" "+w.typ(p.Constraint()))
	}
	return "[" + strings.Join(params, ", ") + "]"
}

func (w *writer) signature(f *types.Func) string {
	s := f.Signature()
	plain := types.NewSignatureType(nil, nil, nil, s.Params(), results(s), s.Variadic())
	return w.typeParams(s.TypeParams()) + strings.TrimPrefix(w.typ(plain), "func")
}

// results of s, without the names that the compiler gives to results which have none, as it does in a function that
// returns from the body of a range over a function.
func results(s *types.Signature) *types.Tuple {
	vars := make([]*types.Var, 0, s.Results().Len())
	for v := range s.Results().Variables() {
		name := v.Name()
		if !token.IsIdentifier(name) {
			name = ""
		}
		vars = append(vars, types.NewParam(v.Pos(), v.Pkg(), name, v.Type()))
	}
	return types.NewTuple(vars...)
}

func (w *writer) typ(t types.Type) string { return types.TypeString(t, w.qualifier) }

// qualifier names a package by its path, the module's own without the module's.
func (w *writer) qualifier(p *types.Package) string {
	if p == w.pkg {
		return ""
	}
	return strings.TrimPrefix(p.Path(), w.module+"/")
}
