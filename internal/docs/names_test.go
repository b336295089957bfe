package docs_test

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var named = regexp.MustCompile("`\\*?([A-Za-z]\\w*)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?[^`\\n]*`")

// TestNames finds names in pages that no package has any more: package.Name, Type.Member and package.Type.Member, in code marks.
func TestNames(t *testing.T) {
	packages, members := exported(t)
	names := 0
	for page, text := range written(t) {
		if path.Ext(page) != ".md" || page == "CHANGELOG.md" || strings.HasPrefix(page, "docs/migrate/") {
			continue // these name what is gone, or what other libraries have
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			first, second, third := m[1], m[2], m[3]
			switch {
			case m[0] == "`rueidis.ParseURL`": // of the client
			case packages[first] != nil:
				names++
				if !packages[first][second] || third != "" && !members[second][third] {
					t.Errorf("%s: %s: there is no such name", page, m[0])
				}
			case ast.IsExported(first) && members[first] != nil:
				names++
				if !members[first][second] {
					t.Errorf("%s: %s: no type %s has it", page, m[0], first)
				}
			}
		}
	}
	require.NotZero(t, names)
}

// exported returns the exported names of each package, and the fields and methods of each type, whatever its package.
func exported(t *testing.T) (packages, members map[string]map[string]bool) {
	t.Helper()
	packages, members = map[string]map[string]bool{}, map[string]map[string]bool{}
	add := func(to map[string]map[string]bool, key, name string) {
		if to[key] == nil {
			to[key] = map[string]bool{}
		}
		to[key][name] = true
	}
	for _, file := range library(t) {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(packages, file.Name.Name, d.Name.Name)
				} else {
					add(members, receiverOf(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							add(packages, file.Name.Name, n.Name)
						}
					case *ast.TypeSpec:
						add(packages, file.Name.Name, s.Name.Name)
						for _, member := range membersOf(s.Type) {
							add(members, s.Name.Name, member)
						}
					}
				}
			}
		}
	}
	return packages, members
}

func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func membersOf(e ast.Expr) (names []string) {
	var fields *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		fields = e.Fields
	case *ast.InterfaceType:
		fields = e.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, receiverOf(f.Type))
		}
	}
	return names
}
