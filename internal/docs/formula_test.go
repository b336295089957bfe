package docs_test

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A formula is how all doc comments state one fact.
var formulas = []struct {
	about, others *regexp.Regexp // others are the words that it has no more
	want          string
}{
	{
		regexp.MustCompile(`(?i)invalid options`), regexp.MustCompile(`reports (all|every) invalid|lists every invalid`),
		"an error that lists all invalid options",
	},
	{
		regexp.MustCompile(`\[(New\w*|Chain|Bounded|Conns)\]`), regexp.MustCompile(`(?i)\b(create one with|make (it|one) with|use \[New\w*\] to create|to create one)`),
		"Create it with [New].",
	},
	{
		regexp.MustCompile(`after Close`), regexp.MustCompile(`(works|counting|continues to work|functions) after Close`),
		"It may be called after Close.",
	},
}

// TestFormulas checks that doc comments state in one way how a value is created, what its zero value does, what a constructor
// does with invalid options, what happens after Close, and what String returns.
func TestFormulas(t *testing.T) {
	types := 0
	for _, d := range documented(t) {
		if strings.Contains(d.doc, "# Inside") {
			t.Errorf("%s: %s: what is inside belongs below the package clause, or into ARCHITECTURE.md", d.place, d.name)
		}
		for _, f := range formulas {
			if f.about.MatchString(d.doc) && f.others.MatchString(d.doc) {
				t.Errorf("%s: %s: want %q", d.place, d.name, f.want)
			}
		}
		switch {
		case d.method == "String" && d.ofStruct && !strings.HasPrefix(d.doc, "String returns a human-readable line: ") &&
			!strings.Contains(d.doc, "Parse"): // spec writes what it reads
			t.Errorf("%s: %s: want %q", d.place, d.name, "String returns a human-readable line: …")
		case d.constructs != "":
			if d.options && !strings.Contains(d.doc, "an error that lists all invalid options") {
				t.Errorf("%s: %s: want %q", d.place, d.name, "or an error that lists all invalid options")
			}
		case d.constructed:
			types++
			if !strings.Contains(d.doc, "Create it with [") {
				t.Errorf("%s: %s: want %q", d.place, d.name, "Create it with [New].")
			}
			if !strings.Contains(d.doc, "zero") {
				t.Errorf("%s: %s: says nothing about the zero value", d.place, d.name)
			}
		}
	}
	require.NotZero(t, types)
}

// declared is an exported type, function or method, and its doc comment on one line.
type declared struct {
	place, name, method string
	doc                 string
	constructs          string // the type that a function New… returns
	options             bool   // it takes options and returns an error
	constructed         bool   // a type that a function New… returns
	isStruct            bool   // a type that is a struct
	ofStruct            bool   // a method of one
}

func documented(t *testing.T) []declared {
	t.Helper()
	var all []declared
	made := map[string]bool{} // by package and type
	for name, file := range library(t) {
		if file.Doc != nil {
			all = append(all, declared{place: name, name: "package " + file.Name.Name, doc: oneLine(file.Doc)})
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				one := declared{place: name, name: d.Name.Name, doc: oneLine(d.Doc)}
				if d.Recv != nil {
					one.method = d.Name.Name
					one.name = receiverOf(d.Recv.List[0].Type) + "." + d.Name.Name
					if !ast.IsExported(one.name) {
						continue
					}
				} else if results := d.Type.Results; strings.HasPrefix(d.Name.Name, "New") && results != nil {
					one.constructs = receiverOf(results.List[0].Type)
					made[path.Dir(name)+"."+one.constructs] = true
					for _, p := range d.Type.Params.List {
						one.options = one.options || strings.HasSuffix(receiverOf(p.Type), "Options") && results.NumFields() > 1
					}
				}
				if ast.IsExported(d.Name.Name) {
					all = append(all, one)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
						doc := s.Doc
						if doc == nil {
							doc = d.Doc
						}
						if _, ok := s.Type.(*ast.StructType); ok {
							all = append(all, declared{place: name, name: s.Name.Name, doc: oneLine(doc), constructed: true, isStruct: true})
						}
					}
				}
			}
		}
	}
	structs := map[string]bool{}
	for _, d := range all {
		structs[path.Dir(d.place)+"."+d.name] = d.isStruct
	}
	for i := range all {
		receiver, _, _ := strings.Cut(all[i].name, ".")
		all[i].ofStruct = structs[path.Dir(all[i].place)+"."+receiver]
		all[i].constructed = all[i].constructed && made[path.Dir(all[i].place)+"."+all[i].name]
	}
	return all
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
