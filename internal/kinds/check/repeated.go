package check

// Set returns the values of a list.
func Set[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, value := range list {
		set[value] = true
	}
	return set
}

// Repeated returns for each value of a list whether it stands before, too. To look for each among
// those before it takes time with the square of their number.
func Repeated[T comparable](list []T) []bool {
	repeated, seen := make([]bool, len(list)), make(map[T]bool, len(list))
	for i, value := range list {
		repeated[i] = seen[value]
		seen[value] = true
	}
	return repeated
}
