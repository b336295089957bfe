package docs_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documented are the packages whose examples are held complete: those that users import.
var documented = []string{
	"adaptive", "channel", "core", "grpclimit", "httplimit", "ioreader", "limitertest", "partition", "pipe",
	"redislimit", "redislimit/goredis", "redislimit/rueidis", "resilience", "resilience/failsafe", "rlslimit", "spec",
	"telemetry", "telemetry/prometheus", "worker",
}

// Methods without an example, by their names, and why none is needed.
const (
	ofLimiters = "a method of every limiter, which the examples of package core show"
	ofValues   = "an accessor, or a method of an interface of the standard library"
)

var plainMethods = map[string]string{
	"Acquire": ofLimiters, "TryAcquire": ofLimiters, "Available": ofLimiters, "Statistics": ofLimiters,
	"IdleFor": ofLimiters, "Refund": ofLimiters, "Settle": ofLimiters, "Reset": ofLimiters, "Update": ofLimiters,
	"Options": ofLimiters, "TryReplenish": ofLimiters, "ReplenishmentPeriod": ofLimiters, "AutoReplenishing": ofLimiters,

	"As": ofValues, "Close": ofValues, "CloseIdleConnections": ofValues, "Error": ofValues, "Is": ofValues, "Len": ofValues,
	"LogValue": ofValues, "MarshalText": ofValues, "Read": ofValues, "ReadFrom": ofValues, "RoundTrip": ofValues,
	"ServeHTTP": ofValues, "String": ofValues, "UnmarshalText": ofValues, "Unwrap": ofValues, "Write": ofValues,
	"WriteTo": ofValues, "Name": ofValues, "Limit": ofValues,
}

// plain are the other functions and methods without an example, and why none is needed.
var plain = map[string]string{
	"limitertest.Run":        "it takes a *testing.T, which no example has: the package comment shows it",
	"adaptive.AIMD.Next":     ofAlgorithms,
	"adaptive.Gradient.Next": ofAlgorithms,
	"adaptive.Vegas.Next":    ofAlgorithms,

	"redislimit.Script.SHA1":   ofStores,
	"redislimit.Script.Source": ofStores,

	"telemetry/prometheus.HTTP.Active":   ofObservers,
	"telemetry/prometheus.HTTP.Collect":  ofObservers,
	"telemetry/prometheus.HTTP.Decided":  ofObservers,
	"telemetry/prometheus.HTTP.Describe": ofObservers,
	"telemetry/prometheus.HTTP.Queued":   ofObservers,
	"telemetry/prometheus.HTTP.Released": ofObservers,
}

const (
	ofAlgorithms = "adaptive.Concurrency calls it"
	ofStores     = "for authors of a Store, who find it in the adapters"
	ofObservers  = "httplimit and the registry call it"
)

// Every exported function or method that is not plain has an example, or is called by another example
// of its package.
func TestExamples(t *testing.T) {
	unused := make(map[string]bool)
	for name := range plain {
		unused[name] = true
	}
	for _, folder := range documented {
		p, examples, called := parsePackage(t, folder)
		hold := func(name string, shown bool) {
			delete(unused, folder+"."+name)
			if plain[folder+"."+name] == "" {
				assert.True(t, shown, "%s.%s has no example", folder, name)
			}
		}
		functions := p.Funcs
		for _, of := range p.Types {
			functions = append(functions, of.Funcs...)
			for _, m := range of.Methods {
				hold(of.Name+"."+m.Name, examples[of.Name+"_"+m.Name] || called["."+m.Name] || plainMethods[m.Name] != "")
			}
		}
		for _, f := range functions {
			hold(f.Name, examples[f.Name] || called[p.Name+"."+f.Name])
		}
	}
	require.Empty(t, unused, "there is no such function")
}

// parsePackage returns a package, the names that its examples are for, and the names that its
// examples call.
func parsePackage(t *testing.T, folder string) (p *doc.Package, examples, called map[string]bool) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	var code []*ast.File
	examples, called = make(map[string]bool), make(map[string]bool)
	positions := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(positions, name, nil, parser.ParseComments)
		require.NoError(t, err)
		if !strings.HasSuffix(name, "_test.go") {
			code = append(code, file)
			continue
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			examples[withoutSuffix(strings.TrimPrefix(f.Name.Name, "Example"))] = true
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					of, _ := s.X.(*ast.Ident)
					called["."+s.Sel.Name] = true
					called[fmt.Sprint(of, ".", s.Sel.Name)] = true
				}
				return true
			})
		}
	}
	p, err = doc.NewFromFiles(positions, code, "github.com/sluice-go/sluice/"+folder)
	require.NoError(t, err)
	return p, examples, called
}

// withoutSuffix returns what an example is for: Parse_flag is for Parse, Limit_New for Limit.New.
func withoutSuffix(name string) string {
	if i := strings.LastIndexByte(name, '_'); i >= 0 && i+1 < len(name) && unicode.IsLower(rune(name[i+1])) {
		return name[:i]
	}
	return name
}
