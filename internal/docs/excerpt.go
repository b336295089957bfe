package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Excerpt returns the text that a mark names: PATH or PATH#NAME,NAME.
func Excerpt(root, source string) (string, error) {
	path, names, some := strings.Cut(source, "#")
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil || !some {
		return string(text), err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var parts []string
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(file.Decls, func(d ast.Decl) bool { return declares(d, name) })
		if i < 0 {
			return "", fmt.Errorf("%s declares no %s", path, name)
		}
		d := file.Decls[i]
		part := string(text[positions.Position(start(d)).Offset:positions.Position(d.End()).Offset])
		if strings.HasPrefix(name, "Example") {
			part = body(part)
		}
		parts = append(parts, part+"\n")
	}
	return strings.Join(parts, "\n"), nil
}

// declares reports whether d is what name says: the imports, a function, a method, a type, or a
// constant or variable.
func declares(d ast.Decl, name string) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return called(d) == name
	case *ast.GenDecl:
		return slices.ContainsFunc(d.Specs, func(s ast.Spec) bool {
			switch s := s.(type) {
			case *ast.ImportSpec:
				return name == "import"
			case *ast.TypeSpec:
				return s.Name.Name == name
			case *ast.ValueSpec:
				return slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == name })
			}
			return false
		})
	}
	return false
}

// called returns the name of a function, or Type.Method.
func called(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	switch t := of.(type) { // also the receiver of a generic type
	case *ast.IndexExpr:
		of = t.X
	case *ast.IndexListExpr:
		of = t.X
	}
	receiver, _ := of.(*ast.Ident)
	return receiver.Name + "." + f.Name.Name
}

// start returns where a declaration starts, with its comment.
func start(d ast.Decl) token.Pos {
	var comment *ast.CommentGroup
	switch d := d.(type) {
	case *ast.FuncDecl:
		comment = d.Doc
	case *ast.GenDecl:
		comment = d.Doc
	}
	if comment != nil {
		return comment.Pos()
	}
	return d.Pos()
}

var output = regexp.MustCompile(`(?im)^\t// (unordered )?output:`)

// body returns the body of an example, indented by a tab less and without its output, as
// pkg.go.dev shows it.
func body(example string) string {
	_, text, _ := strings.Cut(example, "{\n")
	text = strings.TrimSuffix(text, "}")
	if end := output.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		b.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return b.String()
}
