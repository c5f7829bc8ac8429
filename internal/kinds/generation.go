package kinds

// Generation says what the metadata.generation of a kind's objects counts. Writes of
// the status never increase it. A deletion that has to wait does, except a definition's.
type Generation int

// The rules of upstream's strategies (PrepareForCreate and PrepareForUpdate in
// pkg/registry/*/strategy.go, and apiextensions' for custom resources). The first
// generation is 1 unless a comment says otherwise.
const (
	NoGeneration                   Generation = iota // there is none
	GenerationOne                                    // 1, whatever changes
	GenerationOfSpec                                 // changes of the spec
	GenerationOfSpecChanges                          // changes of the spec; there is none before the first
	GenerationOfSpecAndAnnotations                   // changes of the spec, and of annotations
	GenerationOfContent                              // changes of anything but metadata
	GenerationOfContentAndLabels                     // changes of anything but metadata, and of labels
)
