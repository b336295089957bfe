// Package yamlconf reads the YAML of configuration files strictly: every fault has a place and says what is expected there.
//
//	err := yamlconf.Read("limits.yaml", text, func(root yamlconf.Node) {
//		for _, p := range root.Pairs("the file") {
//			switch p.Key {
//			case "listen":
//				listen, _ = p.Value.Text("listen")
//			default:
//				p.Unknown("the file")
//			}
//		}
//	})
//
// Reading goes on after a fault, so that a user sees all of them at once. Aliases, merge keys and the first document of a file
// are read as everywhere. Keys that stand twice in a mapping, tags other than those of YAML itself, control characters and
// bytes that are not UTF-8 are faults.
//
// The package belongs to rlslimit and to the sluice command, which read their files with it. It is public because these are
// two modules: neither can import an internal package of the other, and an internal package of the root module would make
// every user of Sluice depend on a YAML parser. Other programs should not use it; it may change in any release.
//
// # Inside
//
// The parser is goccy/go-yaml's. Read checks the encoding, parses, and measures the tree once (measure.go): it finds the node
// that each alias stands for, cycles, and aliases that multiply. What a caller reads afterwards is therefore finite, and reading
// takes time in proportion to the file and what its aliases stand for.
package yamlconf
