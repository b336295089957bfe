// Package broken does not compile.
package broken

// Value has no type.
var Value = nowhere
