// Package manifest reads files of Kubernetes objects.
//
// [Files] are the files of some paths, as kubectl apply -R -f finds them. A [Document] is one
// object or list of objects in a file, as JSON. An [Error] says what is wrong with a document,
// and in which line.
package manifest

import (
	"fmt"
	"iter"
)

const (
	// MaxDocument is the largest document in bytes; a file may have any number. Reading a
	// document of YAML takes about 30 times its size.
	MaxDocument = 16 << 20
	// heldBytes bounds the JSON that Files keeps, so that most files are read once.
	heldBytes = 64 << 20
)

// Document is one object or list.
type Document struct {
	// Number counts the documents of a file from 1, without empty ones; Line is its first
	// line.
	Number, Line int
	// JSON is valid, and an object.
	JSON []byte
}

// Error says what is wrong with a document.
type Error struct {
	Number, Line int // 0: the file itself cannot be read
	Cause        error
}

func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Files are files of documents. They are used by one goroutine at a time.
type Files struct {
	files  []file
	budget int // bytes of JSON that may be kept in addition
}

type file struct {
	name string
	// documents are those of the file if kept is set.
	documents []Document
	kept      bool
}

// Len returns how many files there are.
func (f *Files) Len() int { return len(f.files) }

// Name returns the path of the i-th file.
func (f *Files) Name(i int) string { return f.files[i].name }

// Documents yields the documents of the i-th file in their order. In the place of one
// that cannot be decoded it yields an *Error. Files keeps up to 64 MiB of documents for
// the next call, and reads the others again.
func (f *Files) Documents(i int) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		of := &f.files[i]
		if of.kept {
			for _, d := range of.documents {
				if !yield(d, nil) {
					return
				}
			}
			return
		}
		keep, before := true, f.budget
		var documents []Document
		for d, err := range read(of.name) {
			if f.budget -= len(d.JSON); err != nil || f.budget < 0 {
				keep, documents = false, nil
			}
			if keep {
				documents = append(documents, d)
			}
			if !yield(d, err) {
				keep = false
				break
			}
		}
		if keep {
			of.documents, of.kept = documents, true
		} else {
			f.budget = before
		}
	}
}

// problem is an Error of a document.
func problem(number, line int, format string, args ...any) *Error {
	return &Error{Number: number, Line: line, Cause: fmt.Errorf(format, args...)}
}
