// Package cookbook has the programs of docs/cookbook, one in each file.
package cookbook
