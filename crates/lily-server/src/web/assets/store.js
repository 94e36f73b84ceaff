// What outlives a reload: localStorage for conversation and settings, sessionStorage for the key.

function read(storage, name, otherwise) {
  try {
    return JSON.parse(storage().getItem(`lily.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(storage, name, value) {
  try {
    if (value === undefined) storage().removeItem(`lily.${name}`);
    else storage().setItem(`lily.${name}`, JSON.stringify(value));
    return true;
  } catch {
    // Full, or not allowed: the page goes on without.
    return false;
  }
}

// Touching either can throw where storage is forbidden.
const local = () => localStorage;
const session = () => sessionStorage;

export const load = (name, otherwise) => read(local, name, otherwise);
export const save = (name, value) => write(local, name, value);
export const loadKey = () => read(session, "key", "");
export const saveKey = (key) => write(session, "key", key || undefined);
