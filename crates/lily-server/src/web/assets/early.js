// Before the first paint: a theme that was chosen against the system's.
try {
  const theme = JSON.parse(localStorage.getItem("lily.theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the system's theme holds.
}
