import Glibc

/// Removes an empty directory.
func removeDirectory(_ path: String) {
    unsafe rmdir(path)
}
