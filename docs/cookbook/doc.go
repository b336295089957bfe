// Package cookbook contains the programs of docs/cookbook/README.md, one per file.
package cookbook
