//! The methods that edit the parts of a job, for requests with a field `parts`.

macro_rules! edits_of_parts {
    () => {
        /// Edits the payload.
        #[must_use]
        pub fn payload(mut self, edit: PartEdit) -> Self {
            self.parts.payload = edit;
            self
        }

        /// Edits the checkpoint.
        #[must_use]
        pub fn checkpoint(mut self, edit: PartEdit) -> Self {
            self.parts.checkpoint = edit;
            self
        }

        /// Edits the metadata.
        #[must_use]
        pub fn metadata(mut self, edit: PartEdit) -> Self {
            self.parts.metadata = edit;
            self
        }

        /// Edits the blob.
        #[must_use]
        pub fn blob(mut self, edit: PartEdit) -> Self {
            self.parts.blob = edit;
            self
        }
    };
}
pub(super) use edits_of_parts;
