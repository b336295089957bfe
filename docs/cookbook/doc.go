// Package cookbook contains the functions of docs/cookbook/README.md, one per file.
package cookbook
