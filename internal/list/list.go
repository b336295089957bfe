// Package list has a doubly linked list whose nodes are fields of its elements, so that adding an element
// allocates nothing.
package list

// List is a doubly linked list. The zero List is empty. It is not safe for concurrent use.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// Node is the place of a Value in a list. It is in one list at most; the zero Node is in none.
type Node[T any] struct {
	Value T

	list       *List[T]
	prev, next *Node[T]
}

// Len returns the number of nodes in the list.
func (l *List[T]) Len() int { return l.n }

// First returns the node that has been in the list longest; nil if the list is empty.
func (l *List[T]) First() *Node[T] { return l.first }

// Last returns the node that was pushed last; nil if the list is empty.
func (l *List[T]) Last() *Node[T] { return l.last }

// Next returns the node after n; nil if there is none.
func (n *Node[T]) Next() *Node[T] { return n.next }

// Linked reports whether the node is in a list.
func (n *Node[T]) Linked() bool { return n.list != nil }

// Push appends a node that is in no list.
func (l *List[T]) Push(n *Node[T]) {
	n.list, n.prev = l, l.last
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// Remove removes the node from its list. It does nothing if the node is in none.
func (n *Node[T]) Remove() {
	l := n.list
	if l == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.list, n.prev, n.next = nil, nil, nil
	l.n--
}
