// Package docs holds the documentation, and next to each page the programs that it shows, with
// their tests. It is a module of its own, because the programs use other libraries.
package docs
