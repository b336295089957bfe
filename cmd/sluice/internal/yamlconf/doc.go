// Package yamlconf reads the YAML of configuration files strictly: every error has a place and names what is expected there.
//
//	err := yamlconf.Read("limits.yaml", text, func(root yamlconf.Node) {
//		for _, p := range root.Pairs("the file") {
//			switch p.Key {
//			case "listen":
//				listen, _ = p.Value.Text("listen")
//			default:
//				p.At.Fault("the file has no %q", p.Key)
//			}
//		}
//	})
//
// Reading continues after an error, so that a user sees all of them together. Aliases and merge keys are read as everywhere.
// Duplicate keys and a second document are errors.
//
// # Inside
//
// The parser is go.yaml.in/yaml/v4, whose nodes and errors have places and whose time is linear. Before a caller reads the
// nodes, [Read] measures them once (measure.go): it finds cycles, and aliases that multiply. So the caller reads a finite
// number of values.
package yamlconf
